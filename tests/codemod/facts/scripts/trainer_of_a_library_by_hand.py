import argparse, json, math, os, random
from dataclasses import asdict, dataclass
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader
from torch.optim.lr_scheduler import LambdaLR

@dataclass
class TrainingArguments:
    output_dir: str = "out"
    per_device_train_batch_size: int = 6
    gradient_accumulation_steps: int = 3
    num_train_epochs: int = 2
    learning_rate: float = 5e-3
    warmup_ratio: float = 0.1
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    logging_steps: int = 2
    eval_steps: int = 3
    seed: int = 42

@dataclass
class CausalOutput:
    loss: torch.Tensor = None
    logits: torch.Tensor = None

def set_seed(seed):
    random.seed(seed); np.random.seed(seed); torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)

class Toks(Dataset):
    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        self.rows = [rng.randint(1, 30, size=rng.randint(4, 12)).tolist() for _ in range(n)]
    def __len__(self): return len(self.rows)
    def __getitem__(self, i): return {"input_ids": self.rows[i], "labels": self.rows[i]}

class DataCollator:
    def __init__(self, pad=0, label_pad=-100):
        self.pad, self.label_pad = pad, label_pad
    def __call__(self, features):
        m = max(len(f["input_ids"]) for f in features)
        batch = {"input_ids": [], "attention_mask": [], "labels": []}
        for f in features:
            k = m - len(f["input_ids"])
            batch["input_ids"].append(f["input_ids"] + [self.pad] * k)
            batch["attention_mask"].append([1] * len(f["input_ids"]) + [0] * k)
            batch["labels"].append(f["labels"] + [self.label_pad] * k)
        return {k: torch.tensor(v) for k, v in batch.items()}

class TinyLM(nn.Module):
    def __init__(self, vocab=30, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)
    def forward(self, input_ids=None, attention_mask=None, labels=None):
        h, _ = self.rnn(self.emb(input_ids) * attention_mask.unsqueeze(-1))
        logits = self.head(h)
        loss = None
        if labels is not None:
            shift_logits = logits[..., :-1, :].contiguous()
            shift_labels = labels[..., 1:].contiguous()
            loss = nn.CrossEntropyLoss()(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1))
        return CausalOutput(loss=loss, logits=logits)

def get_linear_schedule_with_warmup(optimizer, warm, total):
    def lr_lambda(step):
        if step < warm:
            return float(step) / float(max(1, warm))
        return max(0.0, float(total - step) / float(max(1, total - warm)))
    return LambdaLR(optimizer, lr_lambda)

class Trainer:
    def __init__(self, model, args, train_dataset, eval_dataset, data_collator):
        self.model, self.args = model, args
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model.to(self.device)
        self.train_dataset, self.eval_dataset, self.data_collator = train_dataset, eval_dataset, data_collator
        self.state = {"global_step": 0, "log_history": [], "best_metric": None}

    def get_train_dataloader(self):
        return DataLoader(self.train_dataset, batch_size=self.args.per_device_train_batch_size, shuffle=True, collate_fn=self.data_collator)

    def get_eval_dataloader(self):
        return DataLoader(self.eval_dataset, batch_size=8, collate_fn=self.data_collator)

    def create_optimizer_and_scheduler(self, total):
        decay = [p for n, p in self.model.named_parameters() if "bias" not in n]
        nodecay = [p for n, p in self.model.named_parameters() if "bias" in n]
        self.optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": self.args.weight_decay}, {"params": nodecay, "weight_decay": 0.0}], lr=self.args.learning_rate)
        self.lr_scheduler = get_linear_schedule_with_warmup(self.optimizer, int(total * self.args.warmup_ratio), total)

    def _prepare_inputs(self, inputs):
        return {k: v.to(self.device) for k, v in inputs.items()}

    def compute_loss(self, model, inputs):
        outputs = model(**inputs)
        return outputs.loss

    def training_step(self, inputs):
        self.model.train()
        inputs = self._prepare_inputs(inputs)
        loss = self.compute_loss(self.model, inputs)
        loss = loss / self.args.gradient_accumulation_steps
        loss.backward()
        return loss.detach()

    def log(self, logs):
        logs = {**logs, "step": self.state["global_step"]}
        self.state["log_history"].append(logs)
        print({k: (round(v, 5) if isinstance(v, float) else v) for k, v in logs.items()})

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        losses, correct, count = [], 0, 0
        for inputs in self.get_eval_dataloader():
            inputs = self._prepare_inputs(inputs)
            out = self.model(**inputs)
            losses.append(out.loss.item())
            preds = out.logits.argmax(-1)[:, :-1]
            labels = inputs["labels"][:, 1:]
            mask = labels != -100
            correct += ((preds == labels) & mask).sum().item()
            count += mask.sum().item()
        metrics = {"eval_loss": float(np.mean(losses)), "ppl": math.exp(np.mean(losses)), "acc": correct / count}
        self.log(metrics)
        return metrics

    def train(self):
        args = self.args
        loader = self.get_train_dataloader()
        steps_per_epoch = max(len(loader) // args.gradient_accumulation_steps, 1)
        total = steps_per_epoch * args.num_train_epochs
        self.create_optimizer_and_scheduler(total)
        tr_loss = torch.tensor(0.0).to(self.device)
        last = 0.0
        self.optimizer.zero_grad()
        for epoch in range(args.num_train_epochs):
            for step, inputs in enumerate(loader):
                tr_loss += self.training_step(inputs)
                if (step + 1) % args.gradient_accumulation_steps == 0 or (len(loader) <= args.gradient_accumulation_steps and (step + 1) == len(loader)):
                    norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), args.max_grad_norm)
                    self.optimizer.step()
                    self.lr_scheduler.step()
                    self.model.zero_grad()
                    self.state["global_step"] += 1
                    if self.state["global_step"] % args.logging_steps == 0:
                        scalar = tr_loss.item()
                        self.log({"loss": (scalar - last) / args.logging_steps, "lr": self.lr_scheduler.get_last_lr()[0], "grad_norm": norm.item()})
                        last = scalar
                    if self.state["global_step"] % args.eval_steps == 0:
                        m = self.evaluate()
                        if self.state["best_metric"] is None or m["eval_loss"] < self.state["best_metric"]:
                            self.state["best_metric"] = m["eval_loss"]
                            self.save_model()
        return self.state

    def save_model(self):
        os.makedirs(self.args.output_dir, exist_ok=True)
        torch.save(self.model.state_dict(), os.path.join(self.args.output_dir, "pytorch_model.bin"))
        torch.save(asdict(self.args), os.path.join(self.args.output_dir, "training_args.bin"))
        with open(os.path.join(self.args.output_dir, "trainer_state.json"), "w") as f:
            json.dump(self.state, f, indent=1)

def main():
    args = TrainingArguments()
    set_seed(args.seed)
    trainer = Trainer(TinyLM(), args, Toks(70, 1), Toks(20, 2), DataCollator())
    state = trainer.train()
    print(state["best_metric"])

if __name__ == "__main__":
    main()

"""What is a time, a rate or the like by its words, and what only looks like one."""

from __future__ import annotations

import time

import pytest

from distify.codemod.verify.noise import lines_of, without_noise
from distify.codemod.verify.numbers import Tolerance
from distify.codemod.verify.output import compare_output

TIMES = """epoch 1 took {:.2f}s
elapsed {:.1f}
epoch 1 time: {:.3f} loss 1.0
time: {:.4f}  data: 1.0
Time (s): {:.2f}
time in seconds: {:.2f}
time per epoch: {:.3f}
train_time/epoch {:.3f}
batch_time={:.4f}
time={:.1f}s/it
({:.1f}s)
{:.0f}ms per step
{:.2f} s/epoch, done
| ms/batch {:.2f} | loss 1.0
12.1ms/step, {:.1f}ms
3.1 it/s {:.1f} it/s
{:.1f} samples/sec
tokens/s: {:.1f}
img/sec: {:.2f}
{:.2f} images per second
{:.1f} steps/min
throughput: {:.1f}
'train_runtime': {:.4f}, 'loss': 1.0
'train_samples_per_second': {:.3f}
"time_taken": {:.2f}
time spent {:.1f}
sec_per_epoch={:.2f}
2024-05-{:02.0f} 10:22:31 loss 1.0
INFO:2024-05-{:02.0f}T10:22:31.123Z start
[10:22:{:02.0f}] loss 1.0
eta: 0:00:{:02.0f}
ETA 0:{:02.0f}
eta: {:.0f}s
[00:{:02.0f}<00:01, 3.1it/s]
1 day, 10:10:{:02.0f}
Mon Jan  {:.0f} 10:10:10 2024
run-20240503_10{:02.0f}31
max memory {:.1f} MB
peak memory 12.0 MB / {:.1f} MB
{:.1f} MB of GPU memory
{:.1f} GB allocated
max mem: {:.0f}
at 0x7f00{:04.0f}"""

OTHERS = """loss/step: {:.2f}
train_loss/epoch {:.3f}
acc/image {:.2f}
corr/image: {:.2f}
samples/class: {:.0f}
batch/epoch: {:.0f}
bits/dim: {:.3f}
loss per token {:.3f}
loss_per_token {:.3f}
super s {:.1f}
eta {:.2f}
loss/min: {:.3f}
loss min per epoch {:.3f}
hyper sec {:.1f}
per step {:.2f}
acc@5:{:.2f}
mAP@0.5:{:.2f}
epoch 3:{:.2f}
3:{:02.0f}
ratio 1:{:02.0f}
timestep {:.0f}
time step {:.0f}
times_seen {:.0f}
seen 3 times: {:.1f}
time 3, loss {:.2f}
took 3.1s loss {:.2f}
loss {:.2f} 12it/s
loss {:.2f} min 3
min/max: {:.2f}
S/N: {:.1f}
score {:.1f} s.d. 3
v {:.1f} h
speed {:.1f} m/s
f0 {:.1f} Hz
GFLOPs: {:.1f}
model size {:.1f} MB
memory slots: {:.0f}
id 0x1{:.0f}
v1.2:{:02.0f}
0.{:.0f}-1-1
step {:.0f} of 20
| acc | 83%| {:.2f} | 1 |
100%|###| 10/10 [00:01<00:00, 9.5it/s, loss={:.2f}]
10it [00:01, 9.5it/s, loss={:.2f}]"""


def equal(line):
    return {compare_output(line.format(a), line.format(b), Tolerance()).equal for a, b in ((3.5, 17.0), (4, 22))}


@pytest.mark.parametrize("line", TIMES.splitlines())
def test_times_and_the_like_are_no_difference(line):
    assert equal(line) == {True}
    check = compare_output(line.format(3.5), line.format(17.0), Tolerance())
    assert "times" in check.notes[0]


@pytest.mark.parametrize("line", OTHERS.splitlines())
def test_other_numbers_are(line):
    assert equal(line) == {False}


def test_noise_hides_no_number_beside_it():
    check = compare_output("loss 0.5 in 3.2s", "loss 0.6 in 9.9s", Tolerance())
    (row,) = check.rows
    assert (row.original, row.rewritten) == ("0.5", "0.6")
    assert without_noise("loss 0.5 in 3.2s") == "loss 0.5 in ~"


def test_a_unit_that_changes_is_none():
    assert compare_output("took 900ms", "took 1.2s", Tolerance()).equal


def test_of_progress_bars_what_the_last_state_tells_is_left():
    bar = "\r 50%|#####     | 1/2 [00:01<00:01, 1.0it/s]\r100%|##########| 2/2 [00:02<00:00, 1.1it/s]"
    assert compare_output(f"{bar}\nloss 1.0\n", "loss 1.0\n", Tolerance()).equal
    told = bar.replace("it/s]", "it/s, loss=0.5, acc=1]")
    assert lines_of(told) == ["[loss=0.5, acc=1]"]
    assert lines_of(told.partition("]")[0] + "]") == []


@pytest.mark.parametrize("piece", ["x", "1,", "1,234", "1 ", "1.5 img/", "1:", "10 days, ", "time ", "memory ", "0."])
def test_long_lines_take_no_long_time(piece):
    started = time.process_time()
    without_noise(piece * 20_000)
    assert time.process_time() - started < 5

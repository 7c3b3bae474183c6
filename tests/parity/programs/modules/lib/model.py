from torch import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x):
        return self.body(x)


def build_model():
    model = Net()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    return model, optimizer

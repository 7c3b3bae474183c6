import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
clip = 1.0

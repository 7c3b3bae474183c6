from .model import build_model

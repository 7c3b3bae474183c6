from .segment import SegmentTrainer

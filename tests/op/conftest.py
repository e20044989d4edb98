import torch

# The problems are small: threads would cost more than they give. Tests of threading set their own.
torch.set_num_threads(1)

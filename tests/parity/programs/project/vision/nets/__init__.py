from .small import small_net
from .wide import wide_net

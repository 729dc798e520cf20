"""Finite metric spaces, and channels on them."""

from skprivate.metric.net._exponential import best_exponential_channel
from skprivate.metric.net._spaces import distance_matrix, separated_net, tree_distances, worst_error

"""Finite metric spaces: their scales, and channels on them."""

from skprivate.metric.net._scales import diametric_scale, entropic_scale, predicted_accuracy
from skprivate.metric.net._spaces import distance_matrix, tree_distances

"""Finite spaces: optimal channels and exponential mechanisms on nets."""

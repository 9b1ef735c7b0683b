"""Conversations at the API: the interface, private conversations, gateways of subBizs, and typing."""

"""Use cases on followed channels: following, lists, synchronisation."""

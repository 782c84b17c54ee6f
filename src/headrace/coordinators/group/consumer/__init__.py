"""Groups of the consumer protocol (KIP-848): the coordinator assigns, members follow at their own pace."""

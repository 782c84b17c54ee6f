"""What joins the controller's decisions to the metadata log, the brokers and the clock."""

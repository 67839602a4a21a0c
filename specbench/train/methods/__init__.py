"""Ways of training: what a batch is put through, and which loss comes out."""

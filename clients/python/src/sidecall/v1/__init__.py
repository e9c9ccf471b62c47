"""The generated stubs of the contract, sidecall.v1."""

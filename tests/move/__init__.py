"""Moving between two Pulsars: from and to the broker under test, the other one is ours."""

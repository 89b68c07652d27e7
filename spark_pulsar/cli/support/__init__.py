"""One file with what somebody who helps needs to know, without secrets."""

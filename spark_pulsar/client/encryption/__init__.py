"""End-to-end encryption as the official clients do it: payloads with AES-256-GCM under a data key, which goes along
sealed for each public key (READ-13). It needs the library `cryptography`."""

"""The load generator of `benchmarks/broker.py`: plain sockets, frames built before the clock starts.

A generator that shares two cores with the broker it measures must cost little, or it measures itself. So a workload's
SEND frames are one buffer, all of one length, built beforehand; sending is `socket.send` of the next slice. Receipts
and deliveries are walked by their length fields only, with a check of the type byte. Acks are joined from parts built
beforehand: the receipts of the publishing phase name the ids that will come, and after every read the last one
delivered is compared with what was expected.

`frames` builds bytes, `connection` is one socket, `workloads` are the measurements, `peers` start and stop brokers.
"""

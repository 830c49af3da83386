--! breaking
-- Functions that lost or renamed parameters, or were folded into others: ack, nack and transact store results and advance
-- steps.
drop function if exists queen.ack, queen.ack_keeping, queen.nack, queen.nack_keeping, queen.complete, queen.transact,
  queen.transact_keeping, queen.advance, queen.keep, queen.queue_of, queen.last_sequence,
  queen.claim_new, queen.claim_due, queen.due_deliveries, queen.next_at, queen.wants_more;

alter type queen.claim rename attribute left_lanes to left_partitions;

--! breaking
-- Functions that lost parameters or were folded into others: ack, nack and transact store results and advance steps.
drop function if exists queen.ack, queen.ack_keeping, queen.nack, queen.nack_keeping, queen.complete, queen.transact,
  queen.transact_keeping, queen.advance, queen.keep, queen.queue_of, queen.last_sequence;

"""A script without `await`."""

from queen import SyncQueen

with SyncQueen.from_env() as queen:
    jobs = queen.queue("from-a-script")
    for number in range(1_000):
        jobs.buffer(message_count=200, time_millis=500).push({"data": number})
    queen.flush_all_buffers()

    messages = jobs.batch(1_000).pop()
    queen.ack(messages)

    assert [message.data for message in messages] == list(range(1_000))
    print(queen.get_buffer_stats()["messagesFlushed"], "pushed")

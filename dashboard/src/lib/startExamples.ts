/** The example programs of the first run, with the URL of this server. */

export interface Example {
  /** The name of the file to save it as, or of the program that runs it. */
  title: string;
  code: string;
}

export interface Examples {
  push: Example[];
  consume: Example[];
  jobs: Example[];
}

/** ``hasKeys``: the server accepts callers with an API key only, so the examples show where to put it. */
export function startExamples(url: string, hasKeys: boolean): Examples {
  const key = hasKeys ? ', bearer_token="qk_…"' : "";
  const header = hasKeys ? " \\\n  -H 'Authorization: Bearer qk_…'" : "";
  return {
    push: [
      {
        title: "push.py",
        code: `import asyncio
from queen import Queen

queen = Queen("${url}"${key})

async def main() -> None:
    async with queen:
        demo = queen.queue("demo")
        await demo.push([{"data": {"hello": "world"}}])

asyncio.run(main())`,
      },
      {
        title: "curl",
        code: `curl -H 'Content-Type: application/json'${header} \\
  ${url}/api/v1/push \\
  -d '{"items":[{"queue":"demo","payload":{"hello":"world"}}]}'`,
      },
    ],
    consume: [
      {
        title: "worker.py",
        code: `import asyncio
from queen import Message, Queen

queen = Queen("${url}"${key})

@queen.queue("demo").handler
async def handle(message: Message) -> None:
    print(message.data, flush=True)

async def main() -> None:
    async with queen:
        await queen.run(handle_signals=True)

asyncio.run(main())`,
      },
      {
        title: "curl",
        code: `curl${header} \\
  '${url}/api/v1/pop/queue/demo?autoAck=true'`,
      },
    ],
    jobs: [
      {
        title: "jobs.py",
        code: `import asyncio
from queen import Queen
from queen.jobs import Job, QueueManager

queen = Queen("${url}"${key})
jobs = QueueManager(queen)

@jobs.processor("emails")
async def send_email(job: Job[str]) -> str:
    return f"sent to {job.data}"

async def main() -> None:
    async with queen:
        await jobs.start_workers()
        job = await send_email.add("ada@example.com")
        print(await job.result(timeout="10s"))
        await jobs.shutdown()

asyncio.run(main())`,
      },
    ],
  };
}

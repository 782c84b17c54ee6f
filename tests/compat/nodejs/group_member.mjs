// kafkajs as a member of tests/compat/mixed_groups: lines of JSON on stdout, the word to leave on stdin.
//
// Usage: node group_member.mjs SETTINGS
// kafkajs has assigners of its own names only; `range` here is the one that other libraries know, so that it can share
// a group with them and lead it.

import { createInterface } from 'node:readline'
import kafkajs from 'kafkajs'

const { AssignerProtocol, Kafka, logLevel } = kafkajs
const { MemberAssignment, MemberMetadata } = AssignerProtocol
const given = JSON.parse(process.argv[2])
const owned = new Set()
const uncommitted = new Map()

function tell(event, more = {}) {
  process.stdout.write(JSON.stringify({ at: Date.now(), event, ...more }) + '\n')
}

function letGo(event) {
  if (owned.size === 0) return
  tell(event, { partitions: [...owned] })
  owned.clear()
  uncommitted.clear()
}

const range = ({ cluster }) => ({
  name: 'range',
  version: 0,

  async assign({ members, topics }) {
    const ids = members.map(({ memberId }) => memberId).sort()
    const shares = new Map(ids.map((id) => [id, {}]))
    for (const topic of topics) {
      const partitions = cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => partitionId)
      partitions.sort((one, other) => one - other)
      const each = Math.floor(partitions.length / ids.length)
      const more = partitions.length % ids.length
      ids.forEach((id, at) => {
        const first = at * each + Math.min(at, more)
        shares.get(id)[topic] = partitions.slice(first, first + each + (at < more ? 1 : 0))
      })
    }
    return ids.map((memberId) => ({
      memberId,
      memberAssignment: MemberAssignment.encode({ version: 0, assignment: shares.get(memberId) }),
    }))
  },

  protocol({ topics }) {
    return { name: 'range', metadata: MemberMetadata.encode({ version: 0, topics }) }
  },
})

const kafka = new Kafka({
  brokers: given.bootstrap.split(','),
  clientId: given.client_id,
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 100, retries: 20 },
})
let consumer
let isLeaving = false

// Without callbacks of its own for these moments: a rebalance is told when it begins, and whoever joins anew without
// having been told has lost what it had.
async function begin() {
  consumer = kafka.consumer({
    groupId: given.group,
    partitionAssigners: [range],
    heartbeatInterval: given.heartbeat_ms,
    sessionTimeout: given.session_ms,
    rebalanceTimeout: given.poll_interval_ms,
    allowAutoTopicCreation: false,
    maxWaitTimeInMs: 200,
  })
  consumer.on(consumer.events.REBALANCING, () => letGo('revoked'))
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    letGo('lost')
    const partitions = payload.memberAssignment[given.topic] ?? []
    partitions.forEach((each) => owned.add(each))
    tell('assigned', { partitions })
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    letGo('lost')
    if (payload.restart || isLeaving) return
    // kafkajs gives up when it is put out of the group in the middle of a join: who uses it begins anew.
    if (payload.error.message.includes('not aware of this member')) return begin()
    tell('failed', { why: String(payload.error) })
    process.exit(1)
  })
  await consumer.connect()
  await consumer.subscribe({ topic: given.topic, fromBeginning: true })
  await consumer.run({ autoCommit: false, eachBatch })
}

async function commit() {
  const offsets = [...uncommitted]
  if (offsets.length === 0) return
  const began = Date.now()
  try {
    await consumer.commitOffsets(
      offsets.map(([partition, offset]) => ({ topic: given.topic, partition, offset: String(offset) })),
    )
  } catch (error) {
    tell('refused', { why: `${error.name}: ${error.message}` })
    throw error // the runner joins again where that is what the error asks for
  }
  tell('committed', { began, offsets })
  for (const [partition, offset] of offsets) if (uncommitted.get(partition) === offset) uncommitted.delete(partition)
}

async function eachBatch({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
  if (!isRunning() || isStale()) return
  const spans = []
  for (const message of batch.messages) {
    const offset = Number(message.offset)
    if (message.value.toString() !== message.offset) tell('garbled', { why: `${message.value} at offset ${offset}` })
    const last = spans.at(-1)
    if (last && last[2] === offset) last[2] = offset + 1
    else spans.push([batch.partition, offset, offset + 1])
  }
  if (spans.length > 0) {
    tell('records', { spans })
    uncommitted.set(batch.partition, spans.at(-1)[2])
    resolveOffset(batch.lastOffset())
    await commit()
  }
  await heartbeat()
}

async function leave() {
  if (isLeaving) return
  isLeaving = true
  await consumer.stop()
  letGo('revoked')
  await consumer.disconnect()
  tell('closed')
  process.exit(0)
}

const lines = createInterface({ input: process.stdin })
lines.once('line', leave)
lines.once('close', leave)
await begin()

// kafkajs behind the face of tests/compat/clients: calls as JSON lines on stdin, one answer a line on stdout.
//
// Usage: node kafkajs.mjs HOST:PORT      (COMPAT_SECURITY for listeners with SASL_SSL)
// kafkajs reads through groups only, so `consume` joins one of its own; it keeps headers in an object, so headers of
// one name stay in order and different names come in the order of their first appearance.

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import kafkajs from 'kafkajs'
import { installCodecs } from './codecs.mjs'

const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = kafkajs
const WAIT_MS = 60_000
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

// What a listener with SASL_SSL asks for: {mechanism, username, password, ca}; the token for OAUTHBEARER is the password.
const given = process.env.COMPAT_SECURITY ? JSON.parse(process.env.COMPAT_SECURITY) : null
const security = given && {
  ssl: { ca: [readFileSync(given.ca, 'utf-8')] },
  sasl:
    given.mechanism === 'OAUTHBEARER'
      ? { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: given.password }) }
      : { mechanism: given.mechanism.toLowerCase(), username: given.username, password: given.password },
}

const kafka = new Kafka({
  ...security,
  brokers: process.argv[2].split(','),
  clientId: 'kafkajs',
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 50, retries: 5 },
})
const admin = kafka.admin()
const members = new Map()

const toBytes = (text) => (text === null ? null : Buffer.from(text, 'base64'))
const toText = (bytes) => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('base64'))
const byPartition = (rows, value) => Object.fromEntries(rows.map((row) => [row.partition, value(row)]))

function toHeaders(pairs) {
  const headers = {}
  for (const [name, value] of pairs) (headers[name] ??= []).push(toBytes(value))
  return headers
}

function toRecord(partition, message) {
  const headers = Object.entries(message.headers ?? {}).flatMap(([name, values]) =>
    (Array.isArray(values) ? values : [values]).map((value) => [name, toText(value)]),
  )
  return {
    partition,
    offset: Number(message.offset),
    timestamp_ms: Number(message.timestamp),
    key: toText(message.key),
    value: toText(message.value),
    headers,
  }
}

function startConsumer(groupId) {
  return kafka.consumer({
    groupId,
    allowAutoTopicCreation: false,
    heartbeatInterval: 500,
    sessionTimeout: 45_000,
    maxWaitTimeInMs: 200,
    maxBytesPerPartition: 10_000_000,
  })
}

async function within(promise, what) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${WAIT_MS} ms in vain: ${what}`)), WAIT_MS)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

const calls = {
  async produce({ topic, records, codec }) {
    const producer = kafka.producer({ allowAutoTopicCreation: false })
    await producer.connect()
    try {
      const messages = records.map((each) => ({
        partition: each.partition,
        timestamp: String(each.timestamp_ms),
        key: toBytes(each.key),
        value: toBytes(each.value),
        headers: toHeaders(each.headers),
      }))
      const answers = await producer.send({ topic, messages, acks: -1, compression: CODECS[codec] })
      const next = byPartition(answers, (row) => Number(row.baseOffset))
      return records.map((each) => next[each.partition]++)
    } finally {
      await producer.disconnect()
    }
  },

  async consume({ topic, ranges }) {
    const left = new Map(ranges.map(([partition, start, end]) => [partition, { start, end }]))
    const found = []
    if (left.size === 0) return found
    const groupId = `kafkajs-${randomUUID()}`
    const consumer = startConsumer(groupId)
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    const isRead = new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      const eachBatch = async ({ batch }) => {
        for (const message of batch.messages) {
          const wanted = left.get(batch.partition)
          const offset = Number(message.offset)
          if (wanted && offset >= wanted.start && offset < wanted.end) found.push(toRecord(batch.partition, message))
          if (wanted && offset + 1 >= wanted.end) left.delete(batch.partition)
        }
        if (left.size === 0) resolve()
      }
      consumer.run({ autoCommit: false, eachBatch }).catch(reject)
    })
    try {
      await within(isRead, `records of ${topic}`)
    } finally {
      await consumer.disconnect()
    }
    await admin.deleteGroups([groupId])
    return found
  },

  // kafkajs answers the end of the partition where no record is that young.
  async offsets_for_time({ topic, timestamp_ms }) {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp_ms)
    const ends = byPartition(await admin.fetchTopicOffsets(topic), (row) => row.high)
    return byPartition(found, (row) => (row.offset === ends[row.partition] ? -1 : Number(row.offset)))
  },

  async bounds({ topic }) {
    return byPartition(await admin.fetchTopicOffsets(topic), (row) => [Number(row.low), Number(row.high)])
  },

  async join({ member, group, topic }) {
    const consumer = startConsumer(group)
    const state = { consumer, topic, assigned: [], taken: [] }
    members.set(member, state)
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      state.assigned = payload.memberAssignment[topic] ?? []
    })
    consumer.on(consumer.events.REBALANCING, () => {
      state.assigned = []
    })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    const eachMessage = async ({ partition, message }) => {
      state.taken.push(toRecord(partition, message))
    }
    await consumer.run({ autoCommit: false, eachMessage })
  },

  async assigned({ member }) {
    return members.get(member).assigned
  },

  async taken({ member }) {
    return members.get(member).taken
  },

  async commit({ member }) {
    const { consumer, topic, assigned, taken } = members.get(member)
    const next = new Map()
    for (const each of taken) if (assigned.includes(each.partition)) next.set(each.partition, each.offset + 1)
    await consumer.commitOffsets([...next].map(([partition, offset]) => ({ topic, partition, offset: String(offset) })))
  },

  async leave({ member }) {
    await members.get(member).consumer.disconnect()
    members.delete(member)
  },

  async committed({ group, topic }) {
    const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    return byPartition(found.partitions, (row) => Number(row.offset))
  },

  async create_topic({ topic, partitions, replication, config }) {
    const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }))
    const topics = [{ topic, numPartitions: partitions, replicationFactor: replication, configEntries }]
    // kafkajs answers false, not an error, where the topic exists.
    if (!(await admin.createTopics({ topics }))) throw Object.assign(new Error('exists'), { code: 36 })
  },

  async topics() {
    return admin.listTopics()
  },

  async describe_topic({ topic }) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    const rows = topics[0].partitions.map(({ partitionId, leader, replicas, isr }) => [
      partitionId,
      { leader, replicas, isr },
    ])
    return Object.fromEntries(rows)
  },

  async add_partitions({ topic, count }) {
    await admin.createPartitions({ topicPartitions: [{ topic, count }] })
  },

  async delete_topic({ topic }) {
    await admin.deleteTopics({ topics: [topic] })
  },

  async topic_config({ topic }) {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic }]
    const answer = await admin.describeConfigs({ resources, includeSynonyms: false })
    return Object.fromEntries(answer.resources[0].configEntries.map((row) => [row.configName, row.configValue]))
  },

  async alter_topic_config({ topic, config }) {
    const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }))
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }],
    })
  },

  async cluster() {
    const found = await admin.describeCluster()
    return {
      controller: found.controller,
      brokers: found.brokers.map(({ nodeId, host, port }) => [nodeId, host, port]),
    }
  },

  async groups() {
    return (await admin.listGroups()).groups.map((row) => row.groupId)
  },

  async describe_group({ group }) {
    const { groups } = await admin.describeGroups([group])
    return { state: groups[0].state, members: groups[0].members.length }
  },

  async delete_group({ group }) {
    await admin.deleteGroups([group])
  },

  async delete_records({ topic, before }) {
    await admin.fetchTopicOffsets(topic) // or the client does not know the topic's leaders
    const partitions = before.map(([partition, offset]) => ({ partition, offset: String(offset) }))
    await admin.deleteTopicRecords({ topic, partitions })
  },
}

// Kafka's code is on the error, on its cause, or on one of the errors that it gathers.
function codeOf(error) {
  if (!error) return null
  if (typeof error.code === 'number') return error.code
  const parts = [...(error.groups ?? []), ...(error.partitions ?? [])].map((part) => part.error)
  const inside = [error.cause, error.originalError, ...(error.errors ?? []), ...parts]
  for (const each of inside) {
    const code = each && each !== error ? codeOf(each) : null
    if (code !== null) return code
  }
  return null
}

await installCodecs()
await admin.connect()
for await (const line of createInterface({ input: process.stdin })) {
  const { op, args } = JSON.parse(line)
  let answer
  try {
    answer = { result: (await calls[op](args)) ?? null }
  } catch (error) {
    answer = { error: { code: codeOf(error), message: `${error.name}: ${error.message}` } }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
}
process.exit(0)

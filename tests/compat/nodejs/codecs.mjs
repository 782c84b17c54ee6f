// Codecs that kafkajs leaves to plug-ins, from packages that need no compiler.

import kafkajs from 'kafkajs'
import lz4 from 'lz4js'
import xxhash from 'lz4js/xxh32.js'
import * as snappy from 'snappyjs'
import * as zstd from '@bokuweb/zstd-wasm'

const { CompressionTypes, CompressionCodecs } = kafkajs

// The Java clients wrap snappy blocks in a frame of their own; others send one bare block.
const XERIAL = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00])

function unsnappy(data) {
  if (!data.subarray(0, 8).equals(XERIAL)) return Buffer.from(snappy.uncompress(data))
  const blocks = []
  for (let at = 16; at < data.length; ) {
    const size = data.readInt32BE(at)
    blocks.push(Buffer.from(snappy.uncompress(data.subarray(at + 4, at + 4 + size))))
    at += 4 + size
  }
  return Buffer.concat(blocks)
}

// lz4js makes one block (up to 4 MiB) but does not say that it stands alone, which Kafka asks for: set the flag, and
// the descriptor's check sum again.
function lz4Frame(data) {
  const frame = Buffer.from(lz4.compress(data))
  frame[4] |= 0x20
  frame[6] = xxhash.hash(0, frame, 4, 2) >> 8
  return frame
}

// The frame is taken apart here because lz4js stumbles over check sums of blocks, which aiokafka writes.
function unlz4(frame) {
  const flags = frame[4]
  const blockBytesMax = 1 << (8 + 2 * ((frame[5] >> 4) & 7))
  const blocks = []
  let at = flags & 0x08 ? 15 : 7
  for (let size = frame.readUInt32LE(at); size !== 0; size = frame.readUInt32LE(at)) {
    const stored = size & 0x7fffffff
    const block = frame.subarray(at + 4, at + 4 + stored)
    if (size >>> 31) {
      blocks.push(block)
    } else {
      const out = Buffer.alloc(blockBytesMax)
      blocks.push(out.subarray(0, lz4.decompressBlock(block, out, 0, stored, 0)))
    }
    at += 4 + stored + (flags & 0x10 ? 4 : 0)
  }
  return Buffer.concat(blocks)
}

export async function installCodecs() {
  await zstd.init()
  CompressionCodecs[CompressionTypes.Snappy] = () => ({
    compress: async (encoder) => Buffer.from(snappy.compress(encoder.buffer)),
    decompress: async (data) => unsnappy(data),
  })
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async (encoder) => lz4Frame(encoder.buffer),
    decompress: async (data) => unlz4(data),
  })
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
    decompress: async (data) => Buffer.from(zstd.decompress(data)),
  })
}

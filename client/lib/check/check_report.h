/// These types say what a deep check is asked to do, how far it is, and what it found.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/runtime/clock.h"

namespace kintsugi::client {

/// How far a deep check is. What is to be read was counted at its beginning, and may change meanwhile.
struct DeepCheckProgress {
  uint64_t total_chunks = 0, total_bytes = 0;
  uint64_t chunks = 0, bytes = 0;  ///< chunks and bytes read so far
  uint64_t damaged = 0;            ///< chunks found damaged so far
  uint64_t settled = 0;            ///< damaged chunks that were repaired or are given up
  bool waiting = false;            ///< everything is read, and unsettled chunks are waited for
};

struct DeepCheckOptions {
  uint64_t bytes_per_second = 0;  ///< read rate of each server; 0: no limit, else at least 65536
  /// How long to continue waiting when no damaged chunk has been repaired for so long.
  Duration patience = std::chrono::minutes(2);
  std::function<void(const DeepCheckProgress&)> progress = [](const DeepCheckProgress&) {};
};

/// Says what was wrong with a chunk.
enum class Damage {
  kMissing,     ///< the chunk is not on its server
  kCorrupt,     ///< the bytes do not match their checksums
  kUnreadable,  ///< the disk reports errors
  kOther,       ///< the chunk is intact, but is not the one that was written
};

/// Says what became of a damaged chunk.
enum class Mending {
  kWaiting,     ///< the chunk's repair is waited for, or has been waited for too long
  kRepaired,    ///< the chunk is intact again, there or on another server
  kGone,        ///< the chunk's file was removed in the meantime
  kTooFewLeft,  ///< the stripe has too few chunks left to rebuild it
};

struct DamagedChunk {
  ChunkId id;
  ServerId server;  ///< server on which the damage was found
  std::string server_name;
  std::string path;
  Damage damage = Damage::kMissing;
  std::string detail;  ///< message of the server, for people
  Mending mending = Mending::kWaiting;
  /// While it waits: why the last attempt to repair it failed, for people.
  std::string obstacle;

  bool settled() const { return mending != Mending::kWaiting; }
  bool whole() const { return mending == Mending::kRepaired || mending == Mending::kGone; }
};

/// Chunks of a server that were not read although it is not dead.
struct UnreadChunks {
  ServerId server;
  std::string server_name;
  std::string address;
  uint64_t chunks = 0;
  Status why;  ///< error of the last attempt
};

struct DeepCheckReport {
  uint64_t chunks_read = 0, bytes_read = 0;
  /// Chunks that were on no living server when it was their turn: the metaserver knows, and nothing was waited for.
  uint64_t chunks_missing = 0;
  std::vector<DamagedChunk> damaged;
  uint64_t damaged_unlisted = 0;  ///< further damaged chunks, of which only the number is known
  std::vector<UnreadChunks> unread;

  uint64_t chunks_damaged() const { return damaged.size() + damaged_unlisted; }
  uint64_t count(Mending mending) const {
    return static_cast<uint64_t>(std::count_if(
        damaged.begin(), damaged.end(), [&](const DamagedChunk& chunk) { return chunk.mending == mending; }));
  }
  /// Everything that is on a living server was read, and is as it was written now.
  bool whole() const {
    return unread.empty() && damaged_unlisted == 0 &&
           std::all_of(damaged.begin(), damaged.end(),
                       [](const DamagedChunk& chunk) { return chunk.whole(); });
  }
};

}  // namespace kintsugi::client

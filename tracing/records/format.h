/// The layout of a trace in shared memory, which is also that of its file.
///
/// ```
/// FileHeader          one page
/// ThreadEntry[]       kMostThreads of them: who recorded, and the stack of what is open now
/// Block[]             each belongs to one thread: a BlockHeader, and records in the order in which they were made
/// ```
///
/// The traced process writes it while it runs, in memory that stays when the process is killed. Everything is little-endian
/// and of fixed size. Nothing of the standard library is needed here: the payload includes this (agent/payload.cc).
#pragma once

#include <cstddef>
#include <cstdint>

namespace kintsugi::tracing {

enum class Kind : uint8_t {
  kNone = 0,
  kEntry = 1,  ///< a function was entered, or a coroutine resumed
  kExit = 2,   ///< it was left; flags say how
  kStart = 3,  ///< the start event happened: what the function of the record did is traced from here on
  /// An argument of the function that the records before it entered: `ticks` is its value, `extra` its place from 1 on. Behind an exit it
  /// is what was returned, and its place is kReturnedPlace.
  kArgument = 4,
  kCount
};

enum RecordFlags : uint8_t {
  kTail = 1,     ///< left by calling another function in its place
  kUnwound = 2,  ///< left by an exception, which was noticed only at the record that follows
  kNoEntry = 4,  ///< entered before it was traced
  kAllFlags = 7,
};

struct Record {
  uint64_t ticks = 0;     ///< time stamp counter; of an argument its value
  uint32_t function = 0;  ///< its id, from 1 on, as in the sled map of the binary
  Kind kind = Kind::kNone;
  uint8_t flags = 0;
  uint16_t extra = 0;
};
static_assert(sizeof(Record) == 16);

inline constexpr char kTraceMagic[8] = {'K', 'T', 'R', 'A', 'C', 'E', '1', '\n'};
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint32_t kMostThreads = 64;
inline constexpr uint32_t kMostDepth = 508;
inline constexpr uint32_t kMostArguments = 6;
inline constexpr uint32_t kReturnedPlace = kMostArguments + 1;
inline constexpr uint32_t kTraceBlockBytes = 64 << 10;
inline constexpr uint32_t kRecordsOfABlock = kTraceBlockBytes / sizeof(Record) - 1;
inline constexpr uint64_t kLeastTraceBytes = 1 << 20, kMostTraceBytes = uint64_t{1} << 30;

enum class Mode : uint32_t {
  kLinear = 0,    ///< recording ends when the memory is full
  kCircular = 1,  ///< each thread overwrites its oldest records
};

/// Why nothing is recorded any more.
enum class End : uint32_t {
  kNone = 0,
  kDetached = 1,  ///< whoever had it recorded wanted no more
  kDeadline = 2,
  kFull = 3,
  kDetachedByOther =
      4,  ///< somebody else ended it; files say kDetached, for earlier versions do not know this
  kCount
};

/// The time stamp counter and the clock, read together.
struct ClockPair {
  uint64_t ticks = 0;
  int64_t unix_ns = 0;
};

struct FileHeader {
  char magic[8] = {};
  uint32_t version = 0;
  uint32_t threads = 0;  ///< kMostThreads
  uint64_t file_bytes = 0;
  uint32_t blocks = 0, block_bytes = 0;
  Mode mode{};
  uint32_t functions = 0;  ///< ids go from 1 to this
  uint32_t pid = 0;
  uint32_t build_id_bytes = 0;
  uint8_t build_id[32] = {};
  char program[256] = {};  ///< path of the binary
  char start[128] = {};    ///< what starts the recording, as it was asked for
  ClockPair began;
  uint32_t crc = 0;  ///< CRC32C of what stands above

  // What follows changes while the process records.
  uint32_t blocks_taken = 0;  ///< may go beyond `blocks`: nobody got those
  End end{};
  uint64_t lost = 0;  ///< records of threads that have no entry
  /// Read again and again; `latest_at` says which of the two is whole. They tell how long a tick is.
  ClockPair latest[2];
  uint32_t latest_at = 0;
};
inline constexpr size_t kHeaderBytes = 4096;
static_assert(sizeof(FileHeader) <= kHeaderBytes);

struct ShadowFrame {
  uint64_t stack_pointer = 0;  ///< where the return address of the function lies
  uint32_t function = 0;
  uint32_t unused = 0;
};

/// A thread, and the functions that it is in: with the records, the stack at any of them can be had backwards.
struct ThreadEntry {
  uint32_t tid = 0;  ///< 0: nobody's
  uint32_t depth = 0;
  uint64_t lost = 0;  ///< records that found no room
  char name[16] = {};
  uint32_t newest_block = 0;  ///< index + 1; 0: none
  uint32_t unused[7] = {};
  ShadowFrame stack[kMostDepth];
};
static_assert(sizeof(ThreadEntry) == 8192);

struct BlockHeader {
  uint32_t thread = 0;    ///< index + 1; 0: nobody's
  uint32_t sequence = 0;  ///< how many blocks this thread had before
  uint32_t count = 0;     ///< records
  uint32_t next = 0;      ///< index + 1 of the block that the thread took after this one
};
static_assert(sizeof(BlockHeader) == sizeof(Record));

struct Block {
  BlockHeader header;
  Record records[kRecordsOfABlock];
};
static_assert(sizeof(Block) == kTraceBlockBytes);

inline constexpr size_t kThreadsOffset = kHeaderBytes;
inline constexpr size_t kBlocksOffset = kThreadsOffset + kMostThreads * sizeof(ThreadEntry);

}  // namespace kintsugi::tracing

// Traces: files of processes that were killed in the middle, and files of anybody.
#include <cstring>

#include "common/base/crc32c.h"
#include "tests/fuzz/subject.h"
#include "tracing/records/trace_reader.h"

namespace kintsugi::fuzz {
namespace {

using namespace tracing;

constexpr uint32_t kFunctions = 20;

void seal(std::string& trace) {
  if (trace.size() < sizeof(FileHeader)) return;
  const uint32_t crc = crc32c({reinterpret_cast<const std::byte*>(trace.data()), offsetof(FileHeader, crc)});
  std::memcpy(trace.data() + offsetof(FileHeader, crc), &crc, sizeof(crc));
}

/// A trace of one thread that has `count` records in each of its blocks.
std::string trace_of(uint32_t blocks, uint32_t count, Mode mode) {
  std::string trace(kBlocksOffset + blocks * sizeof(Block), '\0');
  FileHeader header;
  std::memcpy(header.magic, kTraceMagic, sizeof(kTraceMagic));
  header.version = kFormatVersion;
  header.threads = kMostThreads;
  header.file_bytes = trace.size();
  header.blocks = header.blocks_taken = blocks;
  header.block_bytes = kTraceBlockBytes;
  header.mode = mode;
  header.functions = kFunctions;
  header.latest[0] = {1000, 1000};
  std::memcpy(header.program, "/bin/true", sizeof("/bin/true"));
  std::memcpy(trace.data(), &header, sizeof(header));
  ThreadEntry entry;
  entry.tid = 7;
  entry.depth = 1;
  entry.stack[0].function = 3;
  std::memcpy(trace.data() + kThreadsOffset, &entry, sizeof(entry));
  for (uint32_t i = 0; i < blocks; ++i) {
    Block block;
    block.header = {.thread = 1, .sequence = i, .count = count, .next = 0};
    for (uint32_t each = 0; each < count; ++each)
      block.records[each] = {each, each % kFunctions + 1, each % 2 == 0 ? Kind::kEntry : Kind::kExit, 0, 0};
    std::memcpy(trace.data() + kBlocksOffset + i * sizeof(Block), &block, sizeof(block));
  }
  seal(trace);
  return trace;
}

std::vector<std::string> seeds() {
  return {trace_of(1, 0, Mode::kLinear), trace_of(1, kRecordsOfABlock, Mode::kLinear),
          trace_of(2, 5, Mode::kCircular)};
}

/// Most bytes of a trace say nothing: those that do are changed.
void mutate(std::string& trace, std::mt19937_64& random) {
  constexpr size_t kPlaces[] = {0, kThreadsOffset, kBlocksOffset, kBlocksOffset + sizeof(Record)};
  for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
    const size_t place = kPlaces[random() % std::size(kPlaces)] + random() % sizeof(FileHeader);
    if (place < trace.size()) trace[place] = static_cast<char>(random() >> random() % 64);
  }
  if (random() % 8 == 0) trace.resize(random() % (trace.size() + 1));
  if (random() % 2 == 0) seal(trace);
}

/// Names may be empty, and in any language.
void require_printable(const std::string& text) {
  if (!text.empty()) require_one_line(text);
}

void check(std::string_view input) {
  const auto trace = parse_trace(std::as_bytes(std::span(input)));
  if (!trace) {
    require(trace.error().code() == Code::kCorrupt, "what is no trace is corrupt");
    return require_one_line(trace.error().message());
  }
  require_printable(trace->program);
  require_printable(trace->start);
  for (const ThreadTrace& thread : trace->threads) {
    require_printable(thread.name);
    for (const Record& record : thread.records) {
      require(record.function >= 1 && record.function <= trace->functions, "a function has a number");
      require(record.kind > Kind::kNone && record.kind < Kind::kCount, "a record is of a kind");
      (void)trace->nanoseconds(record.ticks);
    }
    for (const uint32_t function : stack_at_begin(thread))
      require(function >= 1 && function <= trace->functions, "a function of a stack has a number");
  }
}

const Registration registration{{"trace_file", seeds, check, mutate}};

}  // namespace
}  // namespace kintsugi::fuzz

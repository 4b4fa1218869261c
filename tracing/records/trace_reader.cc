#include "tracing/records/trace_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "common/base/crc32c.h"

namespace kintsugi::tracing {
namespace {

/// A thread takes a block of another length of time after the last one; nobody records for so long that this is passed.
constexpr double kLeastTicksPerNanosecond = 0.01, kMostTicksPerNanosecond = 100;

Status not_a_trace(std::string_view what) {
  return {Code::kCorrupt, fmt::format("no trace: {}", what)};
}

template <size_t N>
Result<std::string> text_of(const char (&text)[N], std::string_view what) {
  const size_t length = ::strnlen(text, N);
  // Paths may have letters of any language.
  const bool printable =
      std::all_of(text, text + length, [](unsigned char c) { return c >= ' ' && c != 0x7f; });
  if (length == N || !printable) return not_a_trace(fmt::format("{} is no text", what));
  return std::string(text, length);
}

Status check_header(const FileHeader& header, size_t bytes) {
  if (std::memcmp(header.magic, kTraceMagic, sizeof(kTraceMagic)) != 0)
    return not_a_trace("it begins otherwise");
  if (header.version != kFormatVersion)
    return not_a_trace(
        fmt::format("it has format {}, and this program reads {}", header.version, kFormatVersion));
  if (crc32c({reinterpret_cast<const std::byte*>(&header), offsetof(FileHeader, crc)}) != header.crc)
    return not_a_trace("the checksum of its header is wrong");
  if (header.threads != kMostThreads || header.block_bytes != kTraceBlockBytes || header.blocks == 0 ||
      header.file_bytes != kBlocksOffset + uint64_t{header.blocks} * kTraceBlockBytes ||
      header.build_id_bytes > sizeof(header.build_id) || header.mode > Mode::kCircular)
    return not_a_trace("its header contradicts itself");
  if (bytes != header.file_bytes)
    return not_a_trace(fmt::format("it has {} bytes and should have {}", bytes, header.file_bytes));
  if (header.end >= End::kCount || header.latest_at > 1) return not_a_trace("its state is damaged");
  return {};
}

/// A block with what belongs to its thread, as it was read.
struct Found {
  uint32_t sequence = 0;
  const Block* block = nullptr;
};

Status check_block(const Block& block, const FileHeader& header) {
  if (block.header.thread > kMostThreads || block.header.count > kRecordsOfABlock)
    return not_a_trace("the header of a block is damaged");
  for (const Record& record : std::span(block.records).first(block.header.count)) {
    const bool known = record.kind > Kind::kNone && record.kind < Kind::kCount;
    const bool is_argument = record.kind == Kind::kArgument;
    if (is_argument != (record.extra != 0) || record.extra > kReturnedPlace)
      return not_a_trace("a record is damaged");
    if (!known || record.function == 0 || record.function > header.functions || record.flags > kAllFlags)
      return not_a_trace("a record is damaged");
  }
  return {};
}

Result<ThreadTrace> thread_of(const ThreadEntry& entry, uint32_t functions) {
  ThreadTrace thread;
  thread.tid = entry.tid;
  thread.lost = entry.lost;
  KINTSUGI_ASSIGN(thread.name, text_of(entry.name, "the name of a thread"));
  if (entry.depth > kMostDepth) return not_a_trace("the stack of a thread is damaged");
  for (const ShadowFrame& frame : std::span(entry.stack).first(entry.depth)) {
    if (frame.function == 0 || frame.function > functions)
      return not_a_trace("the stack of a thread is damaged");
    thread.stack.push_back(frame.function);
  }
  return thread;
}

/// Puts the records of a thread's blocks one after the other.
Status take_records(std::vector<Found>& found, ThreadTrace& thread) {
  std::ranges::sort(found, {}, &Found::sequence);
  size_t records = 0;
  for (size_t next = 0; next < found.size(); ++next) {
    if (next > 0 && found[next].sequence != found[next - 1].sequence + 1)
      return not_a_trace("the blocks of a thread do not follow each other");
    records += found[next].block->header.count;
  }
  thread.records.reserve(records);
  for (const Found& each : found)
    thread.records.insert(thread.records.end(), each.block->records,
                          each.block->records + each.block->header.count);
  return {};
}

/// The ticks of a nanosecond are told by two readings of the clock.
Status check_clock(const Trace& trace) {
  if (trace.latest.ticks <= trace.began.ticks || trace.latest.unix_ns <= trace.began.unix_ns) return {};
  const double ticks = static_cast<double>(trace.latest.ticks - trace.began.ticks);
  const double ns = static_cast<double>(trace.latest.unix_ns) - static_cast<double>(trace.began.unix_ns);
  if (ticks / ns < kLeastTicksPerNanosecond || ticks / ns > kMostTicksPerNanosecond)
    return not_a_trace("its clock is damaged");
  return {};
}

}  // namespace

double Trace::nanoseconds(uint64_t ticks) const {
  const auto since = static_cast<double>(static_cast<int64_t>(ticks - began.ticks));
  if (latest.ticks <= began.ticks || latest.unix_ns <= began.unix_ns) return since;
  const double ns = static_cast<double>(latest.unix_ns) - static_cast<double>(began.unix_ns);
  return since * ns / static_cast<double>(latest.ticks - began.ticks);
}

Result<Trace> parse_trace(std::span<const std::byte> bytes) {
  if (bytes.size() < kBlocksOffset) return not_a_trace(fmt::format("it has only {} bytes", bytes.size()));
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  KINTSUGI_TRY(check_header(header, bytes.size()));
  Trace trace;
  KINTSUGI_ASSIGN(trace.program, text_of(header.program, "the path of its binary"));
  KINTSUGI_ASSIGN(trace.start, text_of(header.start, "its start event"));
  trace.build_id.assign(reinterpret_cast<const char*>(header.build_id), header.build_id_bytes);
  trace.pid = header.pid;
  trace.functions = header.functions;
  trace.mode = header.mode;
  trace.end = header.end;
  trace.lost = header.lost;
  trace.began = header.began;
  trace.latest = header.latest[header.latest_at];
  KINTSUGI_TRY(check_clock(trace));
  std::vector<std::vector<Found>> found(kMostThreads);
  for (uint32_t i = 0; i < kMostThreads; ++i) {
    ThreadEntry entry;
    std::memcpy(&entry, bytes.data() + kThreadsOffset + i * sizeof(ThreadEntry), sizeof(entry));
    KINTSUGI_ASSIGN(ThreadTrace thread, thread_of(entry, header.functions));
    trace.lost += thread.lost;
    trace.threads.push_back(std::move(thread));
  }
  const auto* const blocks = reinterpret_cast<const Block*>(bytes.data() + kBlocksOffset);
  for (uint32_t i = 0; i < std::min(header.blocks, header.blocks_taken); ++i) {
    KINTSUGI_TRY(check_block(blocks[i], header));
    if (blocks[i].header.thread != 0)
      found[blocks[i].header.thread - 1].push_back({blocks[i].header.sequence, &blocks[i]});
  }
  for (uint32_t i = 0; i < kMostThreads; ++i)
    KINTSUGI_TRY(take_records(found[i], trace.threads[i]));
  std::erase_if(trace.threads,
                [](const ThreadTrace& thread) { return thread.tid == 0 && thread.records.empty(); });
  return trace;
}

Result<Trace> read_trace(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return status_from_errno(errno, path);
  const auto bytes = static_cast<int64_t>(file.tellg());
  if (bytes < 0 || static_cast<uint64_t>(bytes) > kMostTraceBytes + kBlocksOffset + kTraceBlockBytes)
    return not_a_trace("it is no file of such a size").with_context(path);
  // Blocks are read where they lie.
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
  if (!file.seekg(0).read(reinterpret_cast<char*>(memory.get()), bytes))
    return Status{Code::kIoError, fmt::format("{} cannot be read", path)};
  Result<Trace> trace = parse_trace({memory.get(), static_cast<size_t>(bytes)});
  if (!trace) return trace.error().with_context(path);
  return trace;
}

std::vector<uint32_t> stack_at_begin(const ThreadTrace& thread) {
  if (thread.lost != 0) return {};
  std::vector<uint32_t> stack = thread.stack;
  for (auto record = thread.records.rbegin(); record != thread.records.rend(); ++record) {
    if (record->kind == Kind::kEntry && !stack.empty()) stack.pop_back();
    if (record->kind == Kind::kExit) stack.push_back(record->function);
  }
  return stack;
}

std::string_view name_of(End end) {
  switch (end) {
    case End::kNone: return "not ended, or the process was killed";
    case End::kDetached: return "detached";
    case End::kDeadline: return "its time was over";
    case End::kFull: return "its memory was full";
    case End::kDetachedByOther: return "another command ended it";
    case End::kCount: break;
  }
  return "unknown";
}

}  // namespace kintsugi::tracing

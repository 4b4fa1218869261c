#include "tracing/agent/session.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include "tracing/agent/patching.h"
#include "tracing/agent/payload.h"
#include "tracing/records/trace_copy.h"

namespace kintsugi::tracing {
namespace {

/// Of all processes of the user.
constexpr size_t kOldTraces = 16;
/// Ticks without growth after which the code is made read-only again: about a third of a second on today's machines.
constexpr uint64_t kQuietTicks = uint64_t{1} << 30;

/// A debugger keeps the bytes that it changed, and would put back what we wrote meanwhile.
Status check_no_debugger() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint32_t tracer = 0;
    if (word == "TracerPid:" && status >> tracer && tracer != 0)
      return {Code::kConflict, fmt::format("a debugger (process {}) is attached to this process", tracer)};
  }
  return {};
}

bool lives(uint32_t tid) {
  return ::syscall(SYS_tgkill, ::getpid(), tid, 0) == 0;
}

/// Has the code writable and nobody else change it, while one lives.
class Growing {
 public:
  explicit Growing(Recording& recording) : recording_(recording) {
    while (recording_.growing.exchange(true))
      ::sched_yield();
  }
  ~Growing() { recording_.growing.store(false); }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;

 private:
  const LeftOut left_out_;
  Recording& recording_;
};

/// Room for it is made in the directory.
Result<NewTrace> make_trace(const std::string& directory, uint64_t bytes, const TraceIdentity& identity) {
  static uint32_t number = 0;
  KINTSUGI_TRY(make_trace_directory(directory));
  remove_old_traces(directory, kOldTraces - 1);
  const std::string program = identity.program.substr(identity.program.rfind('/') + 1);
  Result<TraceMemory> memory = Status{Code::kAlreadyExists, ""};
  std::string path;
  // An earlier process that had the same pid may have left some.
  for (size_t tries = 0; tries <= kOldTraces && !memory && memory.error().code() == Code::kAlreadyExists;
       ++tries) {
    path = fmt::format("{}/{}-{}-{}.trace", directory, program, ::getpid(), ++number);
    memory = TraceMemory::make(path, bytes, identity);
  }
  if (!memory) return memory.error();
  return NewTrace{number, std::move(path), std::move(*memory)};
}

Status code_is_locked() {
  return {Code::kPermissionDenied, "the kernel does not let the code of this process be changed"};
}

}  // namespace

Status SessionOptions::check() const {
  constexpr size_t kMostLetters = 120;
  // It goes to logs, and into the trace.
  const bool printable = std::ranges::all_of(start, [](char c) { return c >= ' ' && c < 0x7f; });
  if (start.empty() || start.size() > kMostLetters || !printable)
    return {Code::kInvalidArgument,
            "a start event is all, method:NAME, after:TIME, slow:METHOD, slow:METHOD:TIME, or the name of a "
            "function"};
  if (bytes < kLeastTraceBytes || bytes > kMostTraceBytes)
    return {Code::kInvalidArgument,
            fmt::format("a trace has {} MiB to {} MiB", kLeastTraceBytes >> 20, kMostTraceBytes >> 20)};
  return tracing::check(recorded);
}

Result<std::unique_ptr<Session>> Session::open(const Image& image, const SessionOptions& options) {
  KINTSUGI_TRY(options.check());
  KINTSUGI_TRY(check_no_debugger());
  const bool everything = options.everything || options.start == kEveryFunction;
  std::vector<uint32_t> first;
  if (everything) {
    first.resize(image.sleds().functions);
    std::iota(first.begin(), first.end(), 1);
  } else if (options.start_code != nullptr) {
    KINTSUGI_ASSIGN(const uint32_t function, image.function_at(options.start_code));
    first = {function};
  } else {
    KINTSUGI_ASSIGN(first, image.functions_named(options.start));
  }
  KINTSUGI_ASSIGN(std::vector<uint8_t> values, image.recorded_values(options.recorded));
  TraceIdentity identity{image.path(), image.build_id(), options.start, options.mode,
                         image.sleds().functions};
  KINTSUGI_ASSIGN(NewTrace trace, make_trace(options.directory, options.bytes, identity));
  std::unique_ptr<Session> session(
      new Session(image, std::move(trace), std::move(identity), options.directory));
  session->values_ = std::move(values);
  session->recording_->arguments = session->values_.data();
  KINTSUGI_TRY(session->begin(first, everything));
  return session;
}

Session::Session(const Image& image, NewTrace trace, TraceIdentity identity, std::string directory)
    : image_(image),
      identity_(std::move(identity)),
      directory_(std::move(directory)),
      memory_(std::move(trace.memory)),
      path_(std::move(trace.path)),
      patched_(std::make_unique<uint8_t[]>(image.sleds().functions)),
      met_(std::make_unique<Shared<uint8_t>[]>(image.sleds().functions)),
      recording_(std::make_unique<Recording>()),
      lost_before_(lost_by_unknown_threads()) {
  Recording& recording = *recording_;
  recording.number = trace.number;
  recording.header = &memory_.header();
  recording.threads = memory_.threads();
  recording.blocks = memory_.blocks();
  recording.block_count = memory_.header().blocks;
  recording.circular = identity_.mode == Mode::kCircular;
  recording.image = &image.sleds();
  recording.call_begin = image.calls().begin.data();
  recording.callees = image.calls().callees.data();
  recording.indirect = image.calls().indirect.data();
  recording.taken = image.calls().taken.data();
  recording.taken_count = static_cast<uint32_t>(image.calls().taken.size());
  recording.starts = image.starts().data();
  recording.start_count = static_cast<uint32_t>(image.starts().size());
  recording.patched = patched_.get();
  recording.met = met_.get();
}

Status Session::begin(const std::vector<uint32_t>& first, bool everything) {
  Recording& recording = *recording_;
  if (everything) {
    for (uint32_t i = 0; i < functions(); ++i)
      met_[i].store(1);
    recording.started.store(true);
  }
  forget_threads(lives);
  current_recording.store(&recording);
  const Growing growing(recording);
  if (!make_writable(recording, true)) return code_is_locked();
  patch_functions(recording, first.data(), static_cast<uint32_t>(first.size()));
  recording.grown_at.store(__rdtsc());
  return {};
}

Session::~Session() {
  if (!closed_) (void)close(End::kDetached);
}

Status Session::close(End end) {
  closed_ = true;
  Recording& recording = *recording_;
  Status status;
  {
    const Growing growing(recording);
    recording.closed.store(true);
    if (patched() > 0) {
      if (recording.writable || make_writable(recording, true)) {
        unpatch_all(recording);
      } else {
        status = code_is_locked();
      }
    }
    if (recording.writable) (void)make_writable(recording, false);
  }
  current_recording.store(nullptr);
  const bool idle = wait_until_idle();
  if (idle) {
    memory_.header().lost += lost_by_unknown_threads() - lost_before_;
    memory_.finish(end);
    return status;
  }
  std::ignore = recording_.release();
  std::ignore = patched_.release();
  std::ignore = met_.release();
  new std::vector<uint8_t>(std::move(values_));
  new TraceMemory(std::move(memory_));
  return {Code::kInternal, "a thread that is traced makes no progress"};
}

Result<std::string> Session::copy(End end) const {
  const uint32_t blocks = blocks_in_use(memory_);
  const uint64_t bytes = kBlocksOffset + uint64_t{blocks} * kTraceBlockBytes;
  KINTSUGI_ASSIGN(NewTrace trace, make_trace(directory_, std::max(bytes, kLeastTraceBytes), identity_));
  copy_records(memory_, blocks, trace.memory);
  trace.memory.header().lost += lost_by_unknown_threads() - lost_before_;
  trace.memory.finish(end);
  return trace.path;
}

void Session::look_after() {
  memory_.read_clock();
  Recording& recording = *recording_;
  const Growing growing(recording);
  if (recording.writable && __rdtsc() - recording.grown_at.load_relaxed() > kQuietTicks)
    (void)make_writable(recording, false);
}

bool Session::full() const {
  return !recording_->circular && value_of(memory_.header().blocks_taken) >= recording_->block_count;
}

}  // namespace kintsugi::tracing

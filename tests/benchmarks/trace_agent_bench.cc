// What tracing costs: a call that is not traced and one that is, changing the code, and looking through a binary.
//
//   build/release/bin/trace_agent_bench --benchmark_repetitions=9
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <stdexcept>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/trace_agent/subject/subject.h"
#include "tracing/agent/patching.h"
#include "tracing/agent/payload.h"
#include "tracing/agent/session.h"
#include "tracing/repository/sled_map.h"

namespace kintsugi::subject {

void link_many_functions();

}  // namespace kintsugi::subject

namespace kintsugi::tracing {
namespace {

constexpr uint64_t kCalls = 1'000'000;

const Image& image() {
  subject::link_many_functions();
  const auto found = Image::of_process();
  if (!found) throw std::runtime_error(found.error().to_string());
  return **found;
}

std::string directory() {
  return fmt::format("{}-bench-{}", default_trace_directory(), ::getpid());
}

std::unique_ptr<Session> open(const std::string& start) {
  auto session = Session::open(
      image(), {.directory = directory(), .start = start, .mode = Mode::kCircular, .bytes = 4 << 20});
  if (!session) throw std::runtime_error(session.error().to_string());
  return std::move(*session);
}

void close(std::unique_ptr<Session> session) {
  (void)session->close(End::kDetached);
  session.reset();
  std::filesystem::remove_all(directory());
}

void call_loop(benchmark::State& state) {
  for (auto _ : state)
    subject::call_empty(kCalls);
  state.SetItemsProcessed(state.iterations() * kCalls);
}

/// The text's worst case: a loop of calls of an empty function.
void empty_loop_off(benchmark::State& state) {
  call_loop(state);
}
void empty_loop_empty_payload(benchmark::State& state) {
  auto session = open("all");
  session->recording().empty = true;
  call_loop(state);
  close(std::move(session));
}
void empty_loop_recording(benchmark::State& state) {
  auto session = open("all");
  call_loop(state);
  close(std::move(session));
}

/// A recording of nothing, in which a benchmark changes the code itself.
class Patching {
 public:
  Patching() : session_(open("beside")), recording_(session_->recording()) {
    while (recording_.growing.exchange(true)) {
    }
    all_.resize(image().sleds().functions);
    std::iota(all_.begin(), all_.end(), 1);
    writable(true);
    unpatch_all(recording_);
  }
  ~Patching() {
    recording_.growing.store(false);
    close(std::move(session_));
  }
  void writable(bool wanted) {
    if (!make_writable(recording_, wanted))
      throw std::runtime_error("the kernel refuses to have code changed");
  }
  void patch(size_t count) { patch_functions(recording_, all_.data(), static_cast<uint32_t>(count)); }
  void unpatch() { unpatch_all(recording_); }
  size_t functions() const { return all_.size(); }
  /// Has the pages of the code come from the file again.
  void forget_pages() const {
    const ImageSleds& sleds = image().sleds();
    ::madvise(reinterpret_cast<void*>(sleds.text), sleds.text_bytes, MADV_DONTNEED);
  }

 private:
  std::unique_ptr<Session> session_;
  const LeftOut left_out_;
  Recording& recording_;
  std::vector<uint32_t> all_;
};

template <class Work>
void time(benchmark::State& state, Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

/// All functions of this program (11,000 and some), one change of protection each way. The first argument says whether the pages of
/// the code were changed before.
void patch_all_functions(benchmark::State& state) {
  Patching patching;
  for (auto _ : state) {
    if (state.range(0) == 0) patching.forget_pages();
    patching.writable(false);
    time(state, [&] {
      patching.writable(true);
      patching.patch(patching.functions());
    });
    patching.unpatch();
  }
  state.counters["functions"] = static_cast<double>(patching.functions());
}
void unpatch_all_functions(benchmark::State& state) {
  Patching patching;
  for (auto _ : state) {
    patching.patch(patching.functions());
    time(state, [&] { patching.unpatch(); });
  }
}
/// One function, as when something is met for the first time. Argument: whether the protection changes each time.
void patch_one_function(benchmark::State& state) {
  Patching patching;
  for (auto _ : state) {
    if (state.range(0) != 0) patching.writable(false);
    time(state, [&] {
      if (state.range(0) != 0) patching.writable(true);
      patching.patch(1);
      if (state.range(0) != 0) patching.writable(false);
    });
    patching.writable(true);
    patching.unpatch();
  }
}

/// What the agent does once in a process, before its first recording: here for the binary that is named in KINTSUGI_BINARY.
void look_through_binary(benchmark::State& state) {
  const char* const binary = std::getenv("KINTSUGI_BINARY");
  const auto file = MappedFile::open(binary != nullptr ? binary : "/proc/self/exe");
  const auto elf = ElfImage::parse(file->bytes());
  const auto sleds = read_sleds(*elf);
  if (!sleds) throw std::runtime_error(sleds.error().to_string());
  CallGraph calls;
  for (auto _ : state)
    calls = find_calls(*elf, *sleds);
  state.counters["functions"] = static_cast<double>(sleds->functions.size());
  state.counters["calls"] = static_cast<double>(calls.callees.size());
  state.counters["taken"] = static_cast<double>(calls.taken.size());
}

BENCHMARK(empty_loop_off);
BENCHMARK(empty_loop_empty_payload);
BENCHMARK(empty_loop_recording);
BENCHMARK(patch_all_functions)
    ->ArgName("changed_before")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(unpatch_all_functions)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(patch_one_function)
    ->ArgName("protect")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(look_through_binary)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kintsugi::tracing

BENCHMARK_MAIN();

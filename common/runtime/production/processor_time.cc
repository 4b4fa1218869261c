#include "common/runtime/production/processor_time.h"

#include <fstream>
#include <sstream>

#include <unistd.h>

namespace kintsugi::runtime {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "on the processor in ns, ready without one in ns, number of turns".
ProcessorTimes schedule_of(const fs::path& task) {
  std::istringstream line(first_line(task / "schedstat"));
  int64_t ran = 0, delayed = 0;
  if (!(line >> ran >> delayed) || ran < 0 || delayed < 0) return {};
  return {.ran = Duration(ran), .delayed = Duration(delayed)};
}

/// "some avg10=0.05 avg60=0.28 avg300=4.07 total=7138746477", in microseconds.
Duration pressure_of(const std::string& line) {
  constexpr std::string_view kTotal = "total=";
  const size_t at = line.find(kTotal);
  if (!line.starts_with("some ") || at == std::string::npos) return {};
  std::istringstream number(line.substr(at + kTotal.size()));
  int64_t microseconds = 0;
  return number >> microseconds && microseconds > 0 ? Duration(std::chrono::microseconds(microseconds))
                                                    : Duration();
}

}  // namespace

ProcessorClock::ProcessorClock(fs::path proc)
    : proc_(std::move(proc)), machine_(first_line(proc_ / "sys/kernel/random/boot_id")) {}

SystemFacts ProcessorClock::read(pid_t thread) {
  SystemFacts facts;
  std::map<std::string, ProcessorTimes> living;
  std::error_code ignored;  // the kernel does not say, or the thread has just ended
  for (fs::directory_iterator entry(proc_ / "self/task", ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (living.size() >= kMostThreads) break;
    living.emplace(entry->path().filename().string(), schedule_of(entry->path()));
  }
  for (const auto& [id, times] : living_) {
    const auto still = living.find(id);
    // A number may be another thread's by now.
    if (still != living.end() && still->second.ran >= times.ran) continue;
    ended_.ran += times.ran;
    ended_.delayed += times.delayed;
  }
  living_ = std::move(living);
  facts.process = ended_;
  for (const auto& [id, times] : living_) {
    facts.process.ran += times.ran;
    facts.process.delayed += times.delayed;
  }
  if (const auto asked = living_.find(std::to_string(thread)); thread != 0 && asked != living_.end())
    facts.thread = asked->second;
  facts.pressure = pressure_of(first_line(proc_ / "pressure/cpu"));
  std::istringstream pages(first_line(proc_ / "self/statm"));
  int64_t all = 0, resident = 0;
  if (pages >> all >> resident && resident > 0)
    facts.memory_bytes = static_cast<uint64_t>(resident * ::getpagesize());
  return facts;
}

}  // namespace kintsugi::runtime

#include "common/log/log.h"

#include <atomic>
#include <ctime>
#include <memory>
#include <mutex>
#include <thread>

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "common/base/last_words.h"
#include "common/log/log_file.h"
#include "common/log/log_pattern.h"
#include "common/log/silence.h"

namespace kintsugi::log {

using namespace std::chrono_literals;

namespace {

/// Lines that wait for the background's thread, at most. Each takes some 400 bytes, whether it waits or not.
constexpr size_t kQueuedLines = 1024;
/// A process that dies waits so long for its last lines to reach the file.
constexpr auto kDyingWait = std::chrono::milliseconds(200);
constexpr auto kPoll = std::chrono::milliseconds(1);

struct State {
  std::mutex mutex;  // several runtimes may live in one process
  std::shared_ptr<spdlog::logger> logger;
  std::shared_ptr<LogFile> file;                               ///< null: standard error
  std::shared_ptr<spdlog::details::thread_pool> background{};  ///< null: whoever logs writes
  std::function<void(Level, std::string_view)> sink;
};

std::atomic<Level> minimum{Level::kInfo};
thread_local int silences = 0;
LineCounts counts;

std::shared_ptr<spdlog::logger> with_our_form(std::shared_ptr<spdlog::logger> logger) {
  logger->set_pattern(kPattern);
  logger->set_level(spdlog::level::trace);  // `minimum` filters before us
  return logger;
}

/// The logger is never destroyed: threads may log while the process exits.
State& state() {
  static State* instance = [] {
    auto* fresh = new State;
    fresh->logger = with_our_form(
        std::make_shared<spdlog::logger>("kintsugi", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
    fresh->logger->flush_on(spdlog::level::trace);
    return fresh;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// Runs in signal handlers.
void wait_before_last_words() {
  const timespec pause{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kPoll).count()};
  for (auto waited = 0ms; waited < kDyingWait && !counts.all_written(); waited += kPoll)
    ::nanosleep(&pause, nullptr);
}

}  // namespace

void set_level(Level level) {
  minimum = level;
}

void set_file(const std::string& path, Writing writing) {
  std::shared_ptr<LogFile> file;
  try {
    file = std::make_shared<LogFile>(path, counts);
  } catch (const spdlog::spdlog_ex& failure) {
    error("log file {} cannot be used, still logging to stderr: {}", path, failure.what());
    return;
  }
  std::shared_ptr<spdlog::details::thread_pool> background;
  std::shared_ptr<spdlog::logger> logger;
  if (writing == Writing::kInBackground) {
    background = std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1);
    logger = std::make_shared<spdlog::async_logger>("kintsugi", file, background,
                                                    spdlog::async_overflow_policy::overrun_oldest);
  } else {
    logger = std::make_shared<spdlog::logger>("kintsugi", file);
  }
  set_last_words_file(path);
  set_before_last_words(wait_before_last_words);
  with_our_form(logger);
  std::lock_guard lock(state().mutex);
  state().logger = std::move(logger);
  state().file = std::move(file);
  state().background = std::move(background);
}

void reopen_file() {
  std::lock_guard lock(state().mutex);
  if (state().file) state().file->reopen();
}

void flush(std::chrono::milliseconds limit) {
  for (auto waited = 0ms; waited < limit && !counts.all_written(); waited += kPoll)
    std::this_thread::sleep_for(kPoll);
}

uint64_t dropped_lines() {
  return counts.dropped;
}

void set_sink(std::function<void(Level, std::string_view)> sink) {
  std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
}

Silence::Silence() {
  ++silences;
}

Silence::~Silence() {
  --silences;
}

bool enabled(Level level) {
  return level >= minimum.load(std::memory_order_relaxed) && (silences == 0 || level >= Level::kError);
}

void write(Level level, std::string_view line) {
  std::shared_ptr<spdlog::logger> logger;
  std::shared_ptr<spdlog::details::thread_pool> background;
  std::function<void(Level, std::string_view)> sink;
  {
    std::lock_guard lock(state().mutex);
    sink = state().sink;
    logger = state().logger;
    background = state().background;
    if (!sink && state().file) ++counts.submitted;
  }
  if (sink) return sink(level, line);
  logger->log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
  if (background) counts.dropped = background->overrun_counter();
}

}  // namespace kintsugi::log

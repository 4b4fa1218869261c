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
#include "common/log/audit_log.h"
#include "common/log/log_file.h"
#include "common/log/log_pattern.h"
#include "common/log/silence.h"

namespace kintsugi::log {

using namespace std::chrono_literals;

namespace {

/// Lines that wait for the background's thread, at most. Each takes some 400 bytes, whether it waits or not.
constexpr size_t kQueuedLines = 1024;
constexpr size_t kQueuedAuditLines = 256;
/// A process that dies waits so long for its last lines to reach the file.
constexpr auto kDyingWait = std::chrono::milliseconds(200);
constexpr auto kPoll = std::chrono::milliseconds(1);

struct State {
  std::mutex mutex;  // several runtimes may live in one process
  std::shared_ptr<spdlog::logger> logger;
  std::shared_ptr<LogFile> file;                               ///< null: standard error
  std::shared_ptr<spdlog::details::thread_pool> background{};  ///< null: whoever logs writes
  std::function<void(Level, std::string_view)> sink;
  /// The audit log; null: its lines go to the log.
  std::shared_ptr<spdlog::logger> audit{};
  std::shared_ptr<LogFile> audit_file{};
  std::shared_ptr<spdlog::details::thread_pool> audit_background{};
};

std::atomic<Level> minimum{Level::kInfo};
thread_local int silences = 0;
LineCounts counts;
LineCounts audit_counts;

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

/// Escapes what could begin a new line or change how a terminal shows it.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '\\')
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(byte));
    else
      out += c;
  }
  return out;
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
  if (state().audit_file) state().audit_file->reopen();
}

void flush(std::chrono::milliseconds limit) {
  for (auto waited = 0ms; waited < limit && !(counts.all_written() && audit_counts.all_written());
       waited += kPoll)
    std::this_thread::sleep_for(kPoll);
}

void set_audit_file(const std::string& path) {
  std::shared_ptr<LogFile> file;
  try {
    file = std::make_shared<LogFile>(path, audit_counts);
  } catch (const spdlog::spdlog_ex& failure) {
    error("audit log {} cannot be used, so its lines go to the log: {}", path, failure.what());
    return;
  }
  auto background = std::make_shared<spdlog::details::thread_pool>(kQueuedAuditLines, 1);
  auto logger = std::make_shared<spdlog::async_logger>("kintsugi", file, background,
                                                       spdlog::async_overflow_policy::overrun_oldest);
  with_our_form(logger);
  std::lock_guard lock(state().mutex);
  state().audit = std::move(logger);
  state().audit_file = std::move(file);
  state().audit_background = std::move(background);
}

void audit(std::string_view text) {
  const std::string line = escaped(text);
  std::shared_ptr<spdlog::logger> logger;
  std::shared_ptr<spdlog::details::thread_pool> background;
  {
    std::lock_guard lock(state().mutex);
    logger = state().sink ? nullptr : state().audit;
    background = state().audit_background;
    if (logger) ++audit_counts.submitted;
  }
  if (!logger) return info("audit: {}", line);
  logger->info("{}", line);
  audit_counts.dropped = background->overrun_counter();
}

uint64_t dropped_lines() {
  return counts.dropped;
}

std::string audit_path(const std::string& log_file) {
  constexpr std::string_view kEnd = ".log";
  const std::string stem =
      log_file.ends_with(kEnd) ? log_file.substr(0, log_file.size() - kEnd.size()) : log_file;
  return stem + ".audit.log";
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

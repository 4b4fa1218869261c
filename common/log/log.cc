#include "common/log/log.h"

#include <atomic>
#include <memory>
#include <mutex>

#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "common/base/last_words.h"

namespace kintsugi::log {

namespace {

constexpr size_t kMaxFileBytes = 64 << 20;
constexpr size_t kKeptFiles = 3;
constexpr const char* kPattern = "%Y-%m-%dT%H:%M:%S.%f%z %l %v";

struct State {
  std::mutex mutex;  // several runtimes may live in one process
  std::shared_ptr<spdlog::logger> logger;
  std::function<void(Level, std::string_view)> sink;
};

std::atomic<Level> minimum{Level::kInfo};

std::shared_ptr<spdlog::logger> make_logger(spdlog::sink_ptr sink) {
  auto logger = std::make_shared<spdlog::logger>("kintsugi", std::move(sink));
  logger->set_pattern(kPattern);
  logger->set_level(spdlog::level::trace);  // `minimum` filters before us
  logger->flush_on(spdlog::level::trace);   // the lines just before a crash matter most
  return logger;
}

/// The logger is never destroyed: threads may log while the process exits.
State& state() {
  static State* instance = [] {
    auto* fresh = new State;
    fresh->logger = make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>());
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

}  // namespace

void set_level(Level level) {
  minimum = level;
}

void set_file(const std::string& path) {
  std::shared_ptr<spdlog::logger> logger;
  try {
    logger =
        make_logger(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, kMaxFileBytes, kKeptFiles));
  } catch (const spdlog::spdlog_ex& failure) {
    error("log file {} cannot be used, still logging to stderr: {}", path, failure.what());
    return;
  }
  set_last_words_file(path);
  std::lock_guard lock(state().mutex);
  state().logger = std::move(logger);
}

void set_sink(std::function<void(Level, std::string_view)> sink) {
  std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
}

bool enabled(Level level) {
  return level >= minimum.load(std::memory_order_relaxed);
}

void write(Level level, std::string_view line) {
  std::shared_ptr<spdlog::logger> logger;
  std::function<void(Level, std::string_view)> sink;
  {
    std::lock_guard lock(state().mutex);
    sink = state().sink;
    logger = state().logger;
  }
  if (sink) {
    sink(level, line);
  } else {
    logger->log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
  }
}

}  // namespace kintsugi::log

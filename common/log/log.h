/// The logger, which is global. Every line has a level, a time and a sentence; daemons set the file once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace kintsugi::log {

enum class Level { kDebug, kInfo, kWarning, kError };

/// Lines below this level are dropped. Default: kInfo.
void set_level(Level level);

/// Whether the caller waits for the log file's disk.
enum class Writing {
  kAtOnce,  ///< the calling thread writes the line before the call returns
  /// A thread of the log writes the lines. When 1,024 lines wait for it, further ones are dropped and counted. Not
  /// for programs that fork.
  kInBackground,
};
/// Lines are appended to `path` (rotated at 64 MiB, 3 kept) instead of stderr.
void set_file(const std::string& path, Writing writing = Writing::kAtOnce);
/// Opens the file anew by its path, before the next line: for whoever moved it away. Does not wait for the disk.
void reopen_file();
/// Waits until all lines are written, or until `limit` has passed: a disk that hangs must not hold up the end of a
/// process.
void flush(std::chrono::milliseconds limit);
/// How many lines were dropped since the process began, because the log's disk was too slow.
uint64_t dropped_lines();

/// The simulator and tests take lines here instead; an empty function restores the default.
void set_sink(std::function<void(Level, std::string_view)> sink);

bool enabled(Level level);
void write(Level level, std::string_view line);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kDebug)) write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kInfo)) write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kWarning)) write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kError)) write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace kintsugi::log

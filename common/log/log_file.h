/// The file to which the log goes, which may be moved away and opened anew while it is written. Private to the log.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>

namespace kintsugi::log {

/// How many lines were handed to a log that is written in the background, and what became of them. Signal handlers
/// read this: it is atomic numbers only.
struct LineCounts {
  std::atomic<uint64_t> submitted = 0;  ///< lines that callers handed over
  std::atomic<uint64_t> written = 0;    ///< lines that the log attempted to write
  std::atomic<uint64_t> dropped = 0;    ///< lines that were discarded because the queue was full

  bool all_written() const { return written + dropped >= submitted; }
};

/// Each line is in the kernel's hands when it has been written. Lines come from whatever thread the logger has.
class LogFile final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  /// Throws spdlog_ex when the file cannot be opened. `counts` outlives the file.
  LogFile(std::string path, LineCounts& counts);

  /// The file is opened again by its path before the next line is written. Does not block.
  void reopen() { reopen_ = true; }
  const std::string& path() const { return path_; }

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override;
  void flush_() override {}

 private:
  void open();
  void write(spdlog::level::level_enum level, const std::string& text);

  const std::string path_;
  LineCounts& counts_;
  std::unique_ptr<spdlog::sinks::rotating_file_sink_st> file_;
  std::atomic<bool> reopen_ = false;
  uint64_t dropped_told_ = 0;
};

}  // namespace kintsugi::log

#include "common/log/log_file.h"

#include <fmt/format.h>

#include "common/log/log_pattern.h"

namespace kintsugi::log {
namespace {

constexpr size_t kMaxFileBytes = 64 << 20;
constexpr size_t kKeptFiles = 3;

}  // namespace

LogFile::LogFile(std::string path, LineCounts& counts)
    : path_(std::move(path)), counts_(counts), dropped_told_(counts.dropped) {
  open();
}

void LogFile::open() {
  auto file = std::make_unique<spdlog::sinks::rotating_file_sink_st>(path_, kMaxFileBytes, kKeptFiles);
  file->set_pattern(kPattern);
  file_ = std::move(file);
}

void LogFile::write(spdlog::level::level_enum level, const std::string& text) {
  file_->log(spdlog::details::log_msg("kintsugi", level, text));
  file_->flush();
}

void LogFile::sink_it_(const spdlog::details::log_msg& line) {
  // The line counts as tried however this ends: whoever waits for it must not wait for ever.
  struct Counted {
    std::atomic<uint64_t>& written;
    ~Counted() { ++written; }
  } counted{counts_.written};
  if (reopen_.exchange(false)) {
    try {
      open();
    } catch (const spdlog::spdlog_ex& failure) {
      // The old file is still open, wherever it was moved to.
      write(spdlog::level::warn,
            fmt::format("log file {} cannot be opened again, so the old one stays in use: {}", path_,
                        failure.what()));
    }
  }
  if (const uint64_t dropped = counts_.dropped; dropped > dropped_told_) {
    write(spdlog::level::warn,
          fmt::format("{} lines of this log are missing here: its disk was too slow for them",
                      dropped - dropped_told_));
    dropped_told_ = dropped;
  }
  file_->log(line);
  // The lines just before a crash matter most.
  file_->flush();
}

}  // namespace kintsugi::log

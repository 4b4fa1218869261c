/// Shows how far a long transfer is, in one line on stderr when that is a terminal.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace kintsugi::cli {

/// Any thread may call add(); the line is redrawn at most ten times a second.
class Progress {
 public:
  /// With `total_bytes` 0, for an unknown total, no share is shown.
  Progress(std::string label, uint64_t total_bytes);
  ~Progress();  ///< clears the line

  void add(uint64_t bytes);
  /// Shows a sentence in place of what add() showed, until add() is called again. One thread calls this and add().
  void say(std::string_view what);
  uint64_t bytes() const { return bytes_; }
  double seconds() const;  ///< seconds since construction

 private:
  void draw();
  static void show(std::string_view line);

  const std::string label_;
  const uint64_t total_bytes_;
  const bool shown_;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<int64_t> drawn_ns_ = 0;  ///< when the line was last drawn, since construction; 0: never
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace kintsugi::cli

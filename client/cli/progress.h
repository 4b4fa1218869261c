/// How far a long transfer is: one line on a terminal's stderr, nothing in a pipe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace kintsugi::cli {

/// `add` may be called from any thread; it redraws at most ten times a second.
class Progress {
 public:
  /// `total_bytes` 0: unknown.
  Progress(std::string label, uint64_t total_bytes, bool wanted = true);
  ~Progress();  ///< clears the line

  void add(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }
  double seconds() const;

 private:
  void draw();

  const std::string label_;
  const uint64_t total_bytes_;
  const bool shown_;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<int64_t> drawn_ns_ = 0;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace kintsugi::cli

/// Keeps what a thread simulates out of the log.
#pragma once

namespace kintsugi::log {

/// While the calling thread has one, it logs nothing below errors: what it runs happens in a simulation only.
class Silence {
 public:
  Silence();
  ~Silence();
  Silence(const Silence&) = delete;
};

}  // namespace kintsugi::log

/// What the agent prepares for the payload: the sleds of the image, and one recording.
#pragma once

#include <cstdint>

#include "tracing/agent/shared.h"
#include "tracing/records/format.h"

namespace kintsugi::tracing {

inline constexpr uint32_t kSledBytes = 11;

/// All sleds of the image, by function. Made once in a process; it never moves or ends.
struct ImageSleds {
  struct At {
    uint64_t address = 0;  ///< address of the sled in memory
    /// Distance from its end to the code of its own that it calls or goes to; 0: it is not touched.
    int32_t to_stub = 0;
    bool is_exit = false;
  };
  uint32_t functions = 0;
  const uint32_t* first = nullptr;  ///< sleds of function N: first[N - 1] to first[N]
  const At* sleds = nullptr;
  uint64_t text = 0, text_bytes = 0;  ///< the pages in which they lie
};

/// A function by where it begins, for finding whose return address one is. Ordered by address.
struct FunctionStart {
  uint64_t address = 0;
  uint64_t end = 0;
  uint32_t function = 0;
};

/// One recording as the payload sees it. It lives until no thread can be in the payload any more.
struct Recording {
  uint32_t number = 0;  ///< another one for each recording of the process

  FileHeader* header = nullptr;
  ThreadEntry* threads = nullptr;
  Block* blocks = nullptr;
  uint32_t block_count = 0;
  bool circular = false;
  bool empty = false;  ///< nothing is recorded: what the way here costs (benchmarks)

  const ImageSleds* image = nullptr;
  const uint32_t* call_begin = nullptr;  ///< the call graph (repository/call_graph.h)
  const uint32_t* callees = nullptr;
  const uint8_t* indirect = nullptr;
  const uint32_t* taken = nullptr;
  uint32_t taken_count = 0;
  /// By function - 1, which arguments are recorded; bit 0 stands for the first one, bit kReturnedPlace - 1 for what is returned.
  const uint8_t* arguments = nullptr;
  const FunctionStart* starts = nullptr;
  uint32_t start_count = 0;

  uint8_t* patched = nullptr;      ///< by function - 1; changed by who has `growing`
  Shared<uint8_t>* met = nullptr;  ///< by function - 1: it was entered, and what it reaches is patched
  Shared<bool> started{false};
  Shared<bool> growing{false};        ///< somebody changes code
  bool writable = false;              ///< the code can be written to; changed by who has `growing`
  bool taken_patched = false;         ///< all functions whose address is taken are patched
  Shared<bool> closed{false};         ///< no code is changed any more
  Shared<uint32_t> threads_taken{0};  ///< may go beyond those that there is room for
  Shared<uint32_t> patched_count{0}, met_count{0};
  Shared<uint32_t> growth_refused{0};  ///< times that the code could not be made writable
  Shared<uint64_t> grown_at{0};        ///< ticks of the last change
};

}  // namespace kintsugi::tracing

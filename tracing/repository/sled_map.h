/// The sleds that the compiler left in a binary (-fxray-instrument): where they are, and of which function.
#pragma once

#include <cstdint>
#include <vector>

#include "tracing/repository/elf_image.h"

namespace kintsugi::tracing {

/// As the compiler numbers them.
enum class SledKind : uint8_t { kEntry = 0, kExit = 1, kTail = 2, kEntryWithArguments = 3 };

struct Sled {
  uint64_t address = 0;  ///< in the file, as everywhere in the repository
  SledKind kind{};
};

struct SleddedFunction {
  uint64_t address = 0;
  uint32_t first_sled = 0, sleds = 0;  ///< in SledMap::sleds
};

struct SledMap {
  std::vector<SleddedFunction> functions;  ///< function N of the binary is element N - 1
  std::vector<Sled> sleds;
};

/// kNotSupported: the binary was built without sleds. kCorrupt: its map contradicts itself.
Result<SledMap> read_sleds(const ElfImage& image);

}  // namespace kintsugi::tracing

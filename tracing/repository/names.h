/// Names of functions for people, and which functions a start event means.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tracing/repository/elf_image.h"
#include "tracing/repository/sled_map.h"

namespace kintsugi::tracing {

/// "chunkserver::ChunkService::ping" of a mangled name: no parameters, no arguments of templates, no outer namespace of ours. What
/// runs when a coroutine continues has ".resume" behind it. What is not mangled stays as it is.
std::string short_name(std::string_view mangled);

/// Where packages of debug symbols put what was stripped from binaries: .build-id/ab/cdef.debug below it.
inline constexpr const char* kDebugFiles = "/usr/lib/debug";

/// By function - 1, mangled, of a binary or of its debug symbols; an empty one: neither says it. kNotFound: the binary was stripped, and
/// its debug symbols are not there. kConflict: they are those of another build.
Result<std::vector<std::string>> mangled_names(const ElfImage& image, const SledMap& sleds,
                                               const std::string& debug_files = kDebugFiles);

/// The functions whose short name is `wanted`, or ends in it behind "::"; of coroutines all parts.
std::vector<uint32_t> functions_named(const std::vector<std::string>& mangled, std::string_view wanted);

}  // namespace kintsugi::tracing

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

/// By function - 1, mangled; empty: the binary does not say.
std::vector<std::string_view> mangled_names(const ElfImage& image, const SledMap& sleds);

/// The functions whose short name is `wanted`, or ends in it behind "::"; of coroutines all parts.
std::vector<uint32_t> functions_named(const std::vector<std::string_view>& mangled, std::string_view wanted);

}  // namespace kintsugi::tracing

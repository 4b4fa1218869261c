/// Lines of source code around a place that a verdict names.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace kintsugi::cli {

/// `lines` lines before and after the line of the file, numbered, the line itself marked. `file` is what the compiler
/// called it, on whatever machine: its longest end that names a file below `directory` counts. kNotFound: there is
/// none, or it has no such line.
Result<std::string> source_lines(const std::string& directory, const std::string& file, uint32_t line,
                                 uint32_t lines);

}  // namespace kintsugi::cli

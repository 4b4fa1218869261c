/// What one mounted directory does in a second, for any file system.
#pragma once

namespace kintsugi::mount {

/// Prints one line for each measurement. Returns the program's exit status.
int run_bench(const char* directory);

}  // namespace kintsugi::mount

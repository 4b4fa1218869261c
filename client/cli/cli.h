/// The `kintsugi` command line (DESIGN section 6).
#pragma once

namespace kintsugi::cli {

/// 0 done, 1 failed (one clear line on stderr), 2 usage.
int run(int argc, char** argv);

}  // namespace kintsugi::cli

#include "client/cli/cli.h"

int main(int argc, char** argv) {
  return kintsugi::cli::run(argc, argv);
}

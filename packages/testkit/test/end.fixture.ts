/** Prints two lines and ends with the code it is told. */
process.stdout.write("one\ntwo\n");
process.exitCode = Number(process.argv[2]);

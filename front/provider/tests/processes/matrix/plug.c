/* A library whose constructor and destructor call back into the program: the loader's lock is held there. */
void matrix_call(void);
__attribute__((constructor)) static void comes(void) { matrix_call(); }
__attribute__((destructor)) static void goes(void) { matrix_call(); }

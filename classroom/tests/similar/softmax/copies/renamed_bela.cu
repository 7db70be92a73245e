__global__ void softmax(const float *eingabe, float *ausgabe, int zeilen, int spalten)
{
    const int tid = threadIdx.x;
    const int zeile = threadIdx.y + blockIdx.x * blockDim.y;
    if (zeile >= zeilen)
        return;

    // eigene Idee
    float hoch = -INFINITY;
    int spalte = tid;
    while (spalte < spalten) {
        float wert = eingabe[zeile * spalten + spalte];
        if (wert > hoch)
            hoch = wert;
        spalte += 32;
    }
    for (int abstand = 16; abstand >= 1; abstand = abstand / 2) {
        float anderer = __shfl_down_sync(0xffffffff, hoch, abstand);
        if (anderer > hoch)
            hoch = anderer;
    }
    hoch = __shfl_sync(0xffffffff, hoch, 0);

    // eigene Idee
    float summe = 0;
    spalte = tid;
    while (spalte < spalten) {
        float e_hoch = expf(eingabe[zeile * spalten + spalte] - hoch);
        ausgabe[zeile * spalten + spalte] = e_hoch;
        summe += e_hoch;
        spalte += 32;
    }
    for (int abstand = 16; abstand >= 1; abstand = abstand / 2)
        summe += __shfl_down_sync(0xffffffff, summe, abstand);
    summe = __shfl_sync(0xffffffff, summe, 0);

    spalte = tid;
    while (spalte < spalten) {
        ausgabe[zeile * spalten + spalte] = ausgabe[zeile * spalten + spalte] / summe;
        spalte += 32;
    }
}
